"""The commands `teamwright experts` and `teamwright ask`, which need the optional package `teamwright.experts`."""
