"""The model: `loading` creates it, with the layers that are computed in other ways than by default.

Those are attention (`attention`, on a CPU with `cpu_attention`, `flash` and `products`) and, on a
CPU only, `joint_attention`, `norm`, `experts` and `output_layer`; three of these use the layers of
`packed`. `weights`, `precision` and `kernels` decide the formats to compute in.
"""
