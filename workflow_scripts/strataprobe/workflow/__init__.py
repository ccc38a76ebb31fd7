"""What the rules need to know that is no measure: imports of a script, times of a run, nearest targets."""
