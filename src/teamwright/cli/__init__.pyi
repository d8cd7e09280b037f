from teamwright.cli.views.team_picture import draw_team as draw_team
