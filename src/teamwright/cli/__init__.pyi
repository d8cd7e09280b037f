from teamwright.cli.team_picture import draw_team as draw_team
