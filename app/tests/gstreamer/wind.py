#!/usr/bin/python3
"""A player that winds: GStreamer's rtspsrc, told to seek at a rate of its own.

    wind.py URL --rate RATE --from SECONDS --out FILE [--take ELEMENTS]

Writes what comes and what the elements make of it, a transport stream unless they are named, until
it ends.
"""

import argparse
import os
import sys

import gi

gi.require_version("Gst", "1.0")
from gi.repository import Gst  # noqa: E402

# For the whole of it: a player that hangs fails.
PATIENCE = 60 * Gst.SECOND


def wait(bus, kinds, is_it=lambda _: True):
    """The next message of these kinds; an error ends the script."""
    while True:
        message = bus.timed_pop_filtered(PATIENCE, kinds | Gst.MessageType.ERROR)
        if message is None:
            print("nothing happens any more", file=sys.stderr, flush=True)
            # A pipeline that hangs would do so once more as the interpreter takes it down.
            os._exit(1)
        if message.type == Gst.MessageType.ERROR:
            sys.exit("; ".join(map(str, message.parse_error())))
        if is_it(message):
            return


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--from", dest="start", type=float, required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--take", default="rtpmp2tdepay")
    args = parser.parse_args()
    Gst.init(None)
    pipeline = Gst.parse_launch(
        f"rtspsrc name=source location={args.url} protocols=tcp latency=200"
        f" ! {args.take} ! filesink sync=false async=false location={args.out}"
    )
    bus = pipeline.get_bus()
    pipeline.set_state(Gst.State.PAUSED)
    wait(
        bus,
        Gst.MessageType.PROGRESS,
        lambda message: message.parse_progress()[:2] == (Gst.ProgressType.COMPLETE, "open"),
    )
    place = int(args.start * Gst.SECOND)
    start, stop = (0, place) if args.rate < 0 else (place, -1)
    # The flag that lets rtspsrc ask for a scale, and not for a speed.
    flags = Gst.SeekFlags.FLUSH | Gst.SeekFlags.TRICKMODE
    kind = (Gst.SeekType.SET, start, Gst.SeekType.SET, stop)
    if stop < 0:
        kind = (Gst.SeekType.SET, start, Gst.SeekType.NONE, -1)
    seek = Gst.Event.new_seek(args.rate, Gst.Format.TIME, flags, *kind)
    if not pipeline.get_by_name("source").send_event(seek):
        sys.exit("it does not seek")
    pipeline.set_state(Gst.State.PLAYING)
    wait(bus, Gst.MessageType.EOS)
    pipeline.set_state(Gst.State.NULL)


main()
