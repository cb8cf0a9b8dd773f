"""The model: `loading` creates it, with the layers that are computed in other ways than by default.

Those are attention (`attention`, with `products`, `padded` and `spans`), `experts` and
`output_layer`. `weights`, `precision` and `kernels` decide the formats to compute in.
"""
