from teamwright.server.app import make_app as make_app
from teamwright.server.state import open_state as open_state
