from teamwright.cli.terminal.team_picture import draw_team as draw_team
