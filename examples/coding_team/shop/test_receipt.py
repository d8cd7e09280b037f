from unittest import TestCase

from receipt import receipt


class Receipts(TestCase):
    def test_a_receipt_has_two_decimals(self) -> None:
        assert receipt([(2.5, 2), (1.0, 1)], 10) == "You pay 6.60 with tax."
