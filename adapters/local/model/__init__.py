"""The model: `loading` creates it, with the layers that are computed in other ways than by default.

Those are attention (`attention`, with `products`, `padded` and `spans`), `joint_attention`, `norm`,
`experts` and `output_layer`; three of these use the layers of `packed`. `weights`, `precision` and
`kernels` decide the formats to compute in.
"""
