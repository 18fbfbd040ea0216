"""Sinks, one module each, all of one shape: see `trainstate.export.Exporter`."""
