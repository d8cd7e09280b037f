"""Who may do what: tokens, roles, hosts and origins, rates, masks and the audit."""
