from teamwright.server.app import make_app as make_app
from teamwright.server.page.export import export_html as export_html
from teamwright.server.page.projection import read_page_events as read_page_events
from teamwright.server.state import open_state as open_state
