"""Units. Times and durations are whole nanoseconds, times since the Unix epoch."""

NS_PER_S = 10**9
