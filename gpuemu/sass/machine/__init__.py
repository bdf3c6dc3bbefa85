"""The machine that executes SASS without timing: CTAs, control flow, memory and its spaces, operands, recording."""
