"""Teams that share envelopes (`share: a2a_lite`): short handoffs in place of whole replies."""
