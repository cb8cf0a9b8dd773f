"""The model: `loading` creates it, with the layers that are computed in other ways than by default.

Those are attention (`attention`, with `products`, `padded` and `spans`), `projections`, `experts`
and `output_layer`; the last three use the layers of `packed`. `weights`, `precision` and `kernels`
decide the formats to compute in.
"""
