from unittest import TestCase

from prices import total


class Prices(TestCase):
    def test_each_item_counts(self) -> None:
        assert total([(2.5, 2), (1.0, 1)]) == 6.0
