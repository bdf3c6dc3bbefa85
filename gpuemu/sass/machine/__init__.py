"""The machine that executes SASS without time: CTAs, control flow, memory and its spaces, operands, recording."""
