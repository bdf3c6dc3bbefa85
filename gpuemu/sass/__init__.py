"""Execute machine code: compile, read the cubin, disassemble, execute.

    tools        the compiler and the disassembler
    image        the file: kernels, constants, variables, source lines
    machine      CTAs, control flow, memory and its spaces, recording
    numbers      IEEE arithmetic for all lanes at once
    semantics    the effect of each instruction

`launch.execute_launch` runs all of it.
"""
