"""The shell around the core: what runs a training job on Ray."""
