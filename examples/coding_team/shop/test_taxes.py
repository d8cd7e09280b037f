from unittest import TestCase

from taxes import with_tax


class Taxes(TestCase):
    def test_tax_is_added(self) -> None:
        assert with_tax(100, 10) == 110
