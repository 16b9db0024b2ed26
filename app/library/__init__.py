"""The parts of the Library page: finding runs, actions on selected runs, the trash, the disk, imports."""
