"""Views of an execution: each reads the engine's logs and makes something that people want to know of it."""
