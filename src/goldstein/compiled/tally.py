"""What a loop tells about the values it saw: the order of a tally."""

FINITE, TOTAL, LOWEST, MAGNITUDE, FAILED, POWER, DIRECTIONS, VALUE, NORM, CHANGE, LEVEL, CORRECTIONS = range(12)
SINGLES, DOUBLES = 12, 13  # values that tell something about their precision
TALLY = 14
# What the rule `Calibrated` measures, if the tally has room for it: running mean of ‖v‖², its span, and the step.
SQUARE, SQUARES_SUM, SQUARES_SEEN, SPAN, ETA = range(TALLY, TALLY + 5)
