"""Layouts of a shared-memory tile, and the search for the ones that cost the fewest wavefronts.

`tile.py` says what is laid out, `accesses.py` what warps do to it, `layouts.py` where its elements may go,
`search.py` tries every one of them, and `code.py` writes a layout down for people and compilers.
"""
