"""Hand-assembled sequences: a few instructions between two clock reads, on a GPU and on the emulator.

    python -m validation sequences emulate validation/sequences/turns.yaml
    python -m validation sequences build validation/sequences/turns.yaml -o build/turns
    python -m validation sequences run build/turns          # on a machine with an NVIDIA GPU; CuPy and NumPy only
    python -m validation sequences compare build/turns

`forms` learns how instructions are encoded, `assembler` writes them, `frame` puts them between the clock reads,
`files` reads what people write, `running` launches on the GPU (without gpuemu) and `comparing` sets both side by side.
"""
