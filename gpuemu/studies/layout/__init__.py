"""Layouts of a shared-memory tile, and the search for those with the fewest wavefronts.

`tile.py` describes tiles, `accesses.py` the accesses of warps to them, and `layouts.py` the places of their elements.
`search.py` tries all layouts, and `code.py` writes a layout as code.
"""
