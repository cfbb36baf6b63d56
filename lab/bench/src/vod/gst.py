# Serves transport streams by Debian's gst-rtsp-server, each player with a pipeline of its own:
# ADDRESS PORT FILE... as rtsp://ADDRESS:PORT/film-0 and so on.
import sys

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer  # noqa: E402

Gst.init(None)
address, port, *files = sys.argv[1:]
server = GstRtspServer.RTSPServer.new()
server.set_address(address)
server.set_service(port)
for number, file in enumerate(files):
    factory = GstRtspServer.RTSPMediaFactory.new()
    factory.set_launch(
        f'( filesrc location="{file}" ! tsparse set-timestamps=true ! rtpmp2tpay name=pay0 pt=33 )'
    )
    server.get_mount_points().add_factory(f"/film-{number}", factory)
if server.attach(None) == 0:
    sys.exit(f"gst-rtsp-server cannot listen at {address}:{port}")
GLib.MainLoop().run()
