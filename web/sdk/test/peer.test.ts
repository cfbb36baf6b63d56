import { afterEach, expect, test, vi } from "vitest";
import { iceOf, redundant, withIce } from "../src/peer.ts";
import { Publisher } from "../src/publisher.ts";
import { web } from "./web.ts";

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const OFFER = "v=0\r\na=ice-ufrag:new\r\na=ice-pwd:secret\r\nm=audio 9 X 0\r\na=mid:0\r\n";

test("a fragment holds the credentials of a description", () => {
  expect(iceOf(OFFER)).toBe("a=ice-ufrag:new\r\na=ice-pwd:secret\r\n");
});

test("an answer goes on with the credentials and candidates of a fragment", () => {
  const before = "v=0\r\na=ice-ufrag:a\r\na=ice-pwd:b\r\na=candidate:1 old\r\na=end-of-candidates\r\na=mid:0\r\n";
  const fragment = "a=ice-lite\r\na=ice-ufrag:c\r\na=ice-pwd:d\r\na=candidate:2 new\r\na=end-of-candidates\r\n";
  expect(withIce(before, fragment)).toBe(
    "v=0\r\na=ice-ufrag:c\r\na=ice-pwd:d\r\na=candidate:2 new\r\na=mid:0\r\n",
  );
});

test("sound is redundant where the browser can", () => {
  const preferences = (types: string[] | undefined) => {
    const codecs = types?.map((mimeType) => ({ mimeType }));
    vi.stubGlobal("RTCRtpReceiver", { getCapabilities: () => (codecs ? { codecs } : null) });
    let set: string[] | undefined;
    const setCodecPreferences = (codecs: { mimeType: string }[]) => {
      set = codecs.map((one) => one.mimeType);
    };
    redundant({ setCodecPreferences } as unknown as RTCRtpTransceiver);
    return set;
  };
  const red = "audio/red";
  expect(preferences(["audio/opus", red, "audio/PCMU"])).toEqual([red, "audio/opus", "audio/PCMU"]);
  expect(preferences(["audio/opus", "audio/PCMU"]), "nothing is changed").toBeUndefined();
  expect(preferences(undefined), "nothing is known").toBeUndefined();
});

test("a newer token is shown until the broker has seen it", async () => {
  vi.useFakeTimers();
  let cut = true;
  const asked = web((what) => what.startsWith("PUT") && cut);
  const shown = () => asked.filter((what) => what.startsWith("PUT")).length;
  const door = { origin: "https://a.example", token: "old" };
  const options = { topic: "acme/weekly/main/audio/m1", audio: true, video: false, simulcast: false };
  const publisher = new Publisher(door, options);
  await publisher.publish();
  expect(shown(), "it has seen the first").toBe(0);
  publisher.renew("new");
  await vi.advanceTimersByTimeAsync(2_000);
  expect(shown()).toBe(2);
  cut = false;
  await vi.advanceTimersByTimeAsync(60_000);
  expect(shown()).toBe(3);
  publisher.close();
});
