"""The classes of Ray Train that are ours too. Importing this loads ray.train, pyarrow and pandas."""

from ray.train import Checkpoint as Checkpoint
from ray.train import DataConfig as DataConfig
