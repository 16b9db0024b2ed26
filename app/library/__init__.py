"""The parts of the Library page: finding runs, what can be done with those chosen, the trash, the disk, imports."""
