"""Browser tests of the page; pytest takes this folder for a package, whose tests share one browser."""
