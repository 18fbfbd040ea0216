"""What people and tools look at: folds and renderings of the state, all pure."""
