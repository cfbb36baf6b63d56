#!/usr/bin/python3
"""A WebRTC peer that nobody here wrote: GStreamer's webrtcbin with WHIP or WHEP around it.

    webrtc.py publish URL [--video vp8|h264|none] [--token TOKEN] [--tone HZ] [--tcp] [--seconds N]
    webrtc.py play    URL [--video vp8|h264|none] [--token TOKEN] [--tone HZ] [--tcp] [--frames N] [--seconds N]

Prints a line of JSON when it is connected and one at the end. `play` ends with 0 as soon as it has
decoded so many frames of video (if it wants any) and as many buffers of sound; with a tone, as soon
as that is the loudest in what it hears. Until then it answers each line that it is sent with what it
has decoded so far. A tone of 0 publishes no sound. With --tcp it has no UDP.
"""

import argparse
import array
import cmath
import ctypes
import hashlib
import json
import re
import ssl
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstSdp", "1.0")
gi.require_version("GstWebRTC", "1.0")
from gi.repository import GLib, Gst, GstSdp, GstWebRTC  # noqa: E402

ENCODERS = {
    "vp8": "vp8enc deadline=1 cpu-used=8 target-bitrate=400000 keyframe-max-dist=50"
    " error-resilient=partitions ! rtpvp8pay picture-id-mode=15-bit mtu=1200"
    " ! capsfilter caps=application/x-rtp,media=video,encoding-name=VP8,clock-rate=90000,payload=96",
    "h264": "x264enc tune=zerolatency speed-preset=ultrafast bitrate=400 key-int-max=50"
    " ! video/x-h264,profile=constrained-baseline"
    " ! rtph264pay config-interval=-1 aggregate-mode=zero-latency mtu=1200"
    " ! capsfilter caps=application/x-rtp,media=video,encoding-name=H264,clock-rate=90000,payload=96",
}
DECODERS = {
    "VP8": "rtpvp8depay ! vp8dec",
    "H264": "rtph264depay ! avdec_h264",
    "OPUS": "rtpopusdepay ! opusdec ! audioconvert"
    " ! audio/x-raw,format=S16LE,channels=1,rate=48000",
}
CAPS = {
    "vp8": "application/x-rtp,media=video,encoding-name=VP8,clock-rate=90000,payload=96",
    "h264": "application/x-rtp,media=video,encoding-name=H264,clock-rate=90000,payload=96,"
    "packetization-mode=(string)1,profile-level-id=(string)42e01f",
    "opus": "application/x-rtp,media=audio,encoding-name=OPUS,clock-rate=48000,payload=97,"
    "encoding-params=(string)2",
}


# Samples of which the loudest frequency is found, at 48,000 each second.
WINDOW = 4_096


def spectrum(samples):
    """The discrete Fourier transform of 2^n samples (Cooley and Tukey)."""
    if len(samples) == 1:
        return samples
    even, odd = spectrum(samples[::2]), spectrum(samples[1::2])
    turned = [cmath.exp(-2j * cmath.pi * n / len(samples)) * one for n, one in enumerate(odd)]
    return [a + b for a, b in zip(even, turned)] + [a - b for a, b in zip(even, turned)]


def loudest(samples):
    """The loudest frequency in hertz; 0 for silence."""
    bins = [abs(one) for one in spectrum(samples)[: len(samples) // 2]]
    best = max(range(1, len(bins)), key=bins.__getitem__)
    # -60 dB of a full sine.
    return best * 48_000 / len(samples) if bins[best] > 32_768 * len(samples) / 2_000 else 0


def certificate():
    """A key on the curve that all implementations have, and its certificate (RFC 8827)."""
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
    command += " -days 30 -subj /CN=webrtc -keyout - -out -"
    made = subprocess.run(command.split(), capture_output=True, check=True)
    return made.stdout.decode()


def fingerprint(pem):
    only = pem[pem.index("-----BEGIN CERTIFICATE") :]
    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(only)).digest()
    return digest.hex(":").upper()


def say(**facts):
    print(json.dumps(facts), flush=True)


class Peer:
    def __init__(self, arguments):
        self.arguments = arguments
        self.frames = 0
        self.sounds = 0
        self.samples = array.array("h")
        self.heard = 0
        self.width = 0
        self.code = 1
        self.location = None
        self.loop = GLib.MainLoop()
        self.pipeline = Gst.Pipeline.new()
        self.webrtc = Gst.ElementFactory.make("webrtcbin")
        self.webrtc.set_property("bundle-policy", GstWebRTC.WebRTCBundlePolicy.MAX_BUNDLE)
        if arguments.tcp:
            ice = self.webrtc.get_property("ice-agent")
            # webrtcbin (1.22) gives away the reference that it needs itself.
            ctypes.CDLL("libgobject-2.0.so.0").g_object_ref(ctypes.c_void_p(hash(ice)))
            ice.set_property("ice-udp", False)
        self.pipeline.add(self.webrtc)
        self.posted = False
        self.webrtc.connect("notify::ice-gathering-state", self.gathered)
        self.webrtc.connect("notify::connection-state", self.state)

    def run(self):
        bus = self.pipeline.get_bus()
        bus.add_signal_watch()
        bus.connect("message::error", self.error)
        self.pipeline.set_state(Gst.State.PLAYING)
        self.offer(self.prepared)
        GLib.timeout_add_seconds(self.arguments.seconds, self.over)
        self.loop.run()
        say(
            event="end", frames=self.frames, sounds=self.sounds, width=self.width, heard=self.heard
        )
        self.leave()
        self.pipeline.set_state(Gst.State.NULL)
        return self.code

    def publish(self):
        video, tone = self.arguments.video, self.arguments.tone
        if video != "none":
            self.add(
                "videotestsrc is-live=true pattern=ball ! video/x-raw,width=320,height=180,"
                f"framerate=25/1 ! videoconvert ! queue ! {ENCODERS[video]}"
            )
        if tone is None:
            tone = 440
        if tone == 0:
            return
        self.add(
            f"audiotestsrc is-live=true freq={tone} ! audioconvert ! audioresample ! queue"
            " ! opusenc ! rtpopuspay mtu=1200"
            " ! capsfilter caps=application/x-rtp,media=audio,encoding-name=OPUS,clock-rate=48000,payload=97,"
            "encoding-params=(string)2"
        )

    def add(self, description):
        source = Gst.parse_bin_from_description(description, True)
        self.pipeline.add(source)
        source.link(self.webrtc)

    def play(self):
        only = GstWebRTC.WebRTCRTPTransceiverDirection.RECVONLY
        for kind in (self.arguments.video, "opus"):
            if kind != "none":
                self.webrtc.emit("add-transceiver", only, Gst.Caps.from_string(CAPS[kind]))
        self.webrtc.connect("pad-added", self.pad)
        GLib.io_add_watch(sys.stdin, GLib.PRIORITY_DEFAULT, GLib.IO_IN | GLib.IO_HUP, self.asked)

    def asked(self, stdin, _):
        line = stdin.readline()
        if line:
            say(event="count", frames=self.frames, sounds=self.sounds)
        return bool(line)

    def pad(self, _, pad):
        if pad.get_direction() != Gst.PadDirection.SRC:
            return
        caps = pad.get_current_caps().get_structure(0)
        media, decoder = caps.get_string("media"), DECODERS[caps.get_string("encoding-name")]
        sink = "fakesink name=end sync=false async=false signal-handoffs=true"
        branch = Gst.parse_bin_from_description(f"queue ! {decoder} ! {sink}", True)
        branch.get_by_name("end").connect("handoff", self.decoded, media)
        self.pipeline.add(branch)
        branch.sync_state_with_parent()
        pad.link(branch.get_static_pad("sink"))

    def decoded(self, _, buffer, pad, media):
        if media == "video":
            self.frames += 1
            self.width = pad.get_current_caps().get_structure(0).get_int("width")[1]
        else:
            self.sounds += 1
            self.listen(buffer)
        wanted = self.arguments.frames
        tone = self.arguments.tone
        heard = tone is None or abs(self.heard - tone) < 15
        if heard and self.sounds >= wanted and (self.arguments.video == "none" or self.frames >= wanted):
            self.code = 0
            GLib.idle_add(self.loop.quit)

    def listen(self, buffer):
        if self.arguments.tone is None:
            return
        self.samples.frombytes(buffer.extract_dup(0, buffer.get_size()))
        if len(self.samples) >= WINDOW:
            self.heard = loudest(self.samples[:WINDOW].tolist())
            # Ten times a second is enough.
            del self.samples[:]

    def offer(self, then):
        promise = Gst.Promise.new_with_change_func(then, None)
        self.webrtc.emit("create-offer", None, promise)

    def prepared(self, *_):
        """Transports exist from the first offer on; the second one names our certificate.

        By itself GStreamer makes an RSA key, and WebRTC's other implementations have left RSA.
        """
        transceiver = self.webrtc.emit("get-transceiver", 0)
        transport = transceiver.props.sender.props.transport
        # DTLS looks at its certificate when it starts: it starts again.
        dtls = list(self.found(self.webrtc, "dtlsdec"))
        for element in dtls:
            element.set_state(Gst.State.NULL)
        self.certificate = certificate()
        transport.set_property("certificate", self.certificate)
        for element in dtls:
            element.sync_state_with_parent()
        GLib.idle_add(self.offer, self.offered)

    def found(self, bin, kind):
        for element in list(bin.children):
            if isinstance(element, Gst.Bin):
                yield from self.found(element, kind)
            elif element.get_factory().get_name() == kind:
                yield element

    def offered(self, promise, _):
        # The reply owns the offer: without a name it would be gone too early.
        reply = promise.get_reply()
        offer = reply.get_value("offer")
        self.webrtc.emit("set-local-description", offer, Gst.Promise.new())

    def gathered(self, *_):
        complete = GstWebRTC.WebRTCICEGatheringState.COMPLETE
        if self.webrtc.get_property("ice-gathering-state") == complete and not self.posted:
            self.posted = True
            GLib.idle_add(self.post)

    def post(self):
        offer = self.webrtc.get_property("local-description").sdp.as_text()
        # GStreamer counts the key as a part of the certificate.
        right = "a=fingerprint:sha-256 " + fingerprint(self.certificate)
        offer = re.sub("a=fingerprint:[^\r\n]*", right, offer)
        try:
            with self.request("POST", self.arguments.url, offer) as answer:
                self.location = answer.headers["Location"]
                say(event="answered", links=answer.headers.get_all("Link", []))
                text = answer.read()
        except urllib.error.HTTPError as error:
            say(event="refused", status=error.code, body=error.read().decode())
            self.code = 3
            self.loop.quit()
            return
        _, sdp = GstSdp.SDPMessage.new()
        GstSdp.sdp_message_parse_buffer(text, sdp)
        kind = GstWebRTC.WebRTCSDPType.ANSWER
        description = GstWebRTC.WebRTCSessionDescription.new(kind, sdp)
        self.webrtc.emit("set-remote-description", description, Gst.Promise.new())

    def request(self, method, url, body=None):
        request = urllib.request.Request(url, method=method)
        if body is not None:
            request.data = body.encode()
            request.add_header("Content-Type", "application/sdp")
        if self.arguments.token:
            request.add_header("Authorization", f"Bearer {self.arguments.token}")
        return urllib.request.urlopen(request, timeout=10)

    def leave(self):
        if self.location:
            url = urllib.parse.urljoin(self.arguments.url, self.location)
            try:
                self.request("DELETE", url).close()
            except OSError as error:
                say(event="complaint", text=str(error))

    def state(self, *_):
        state = self.webrtc.get_property("connection-state")
        say(event=state.value_nick)
        if state in (
            GstWebRTC.WebRTCPeerConnectionState.FAILED,
            GstWebRTC.WebRTCPeerConnectionState.CLOSED,
        ):
            GLib.idle_add(self.loop.quit)

    def error(self, _, message):
        error, detail = message.parse_error()
        say(event="error", text=f"{error.message}: {detail}")
        self.loop.quit()

    def over(self):
        if self.arguments.what == "publish":
            self.code = 0
        self.loop.quit()
        return False


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["publish", "play"])
    parser.add_argument("url")
    parser.add_argument("--video", choices=["vp8", "h264", "none"], default="vp8")
    parser.add_argument("--token")
    parser.add_argument("--tone", type=int)
    parser.add_argument("--tcp", action="store_true")
    parser.add_argument("--frames", type=int, default=25)
    parser.add_argument("--seconds", type=int, default=30)
    arguments = parser.parse_args()
    Gst.init(None)
    peer = Peer(arguments)
    if arguments.what == "publish":
        peer.publish()
    else:
        peer.play()
    return peer.run()


if __name__ == "__main__":
    sys.exit(main())
