"""Views of an execution: each reads the engine's logs and makes tables, pictures or files from them."""
