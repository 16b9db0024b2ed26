"""The parts of the Learn page around a story: scenes, predictions, exercises, notes, the slide and the handout."""
