"""Who the experts of a team are: profiles, templates, skills, and how a team is formed."""
