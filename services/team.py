"""The four roles in order: for a run without collaboration, and to print what each is told."""

from services.data_engineer.role import ROLE as DATA_ENGINEER
from services.model_trainer.role import ROLE as MODEL_TRAINER
from services.module_architect.role import ROLE as MODULE_ARCHITECT
from services.task_manager.role import ROLE as TASK_MANAGER

TEAM = (TASK_MANAGER, DATA_ENGINEER, MODULE_ARCHITECT, MODEL_TRAINER)
