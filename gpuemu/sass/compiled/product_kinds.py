"""The matrix products that compiled loops know."""

PRODUCT_KINDS = (("f16", "f16", "f32"), ("f16", "f16", "f16"), ("bf16", "bf16", "f32"), ("tf32", "tf32", "f32"))
"""Types of A, B and C; a product has the number of its place here."""
