import { expect, test } from "vitest";
import { target } from "../src/ways";

test("telephones are dialled, rooms are called, streams open beside the page", () => {
  expect(target("tel:+49-30-1234,,4711%23")).toEqual({
    kind: "phone", text: "+49-30-1234,,4711%23", href: "tel:+49-30-1234,,4711%23", leaves: false,
  });
  const sip = "SIP:weekly@sip.example.org";
  expect(target(sip)).toEqual({ kind: "room", text: sip, href: sip, leaves: false });
  const hls = "https://stream.example.org/weekly.m3u8";
  expect(target(hls)).toEqual({ kind: "player", text: hls, href: hls, leaves: true });
});

test("what browsers know not how to open is to be copied", () => {
  expect(target("h323:weekly@gk.example.org").href).toBeUndefined();
  expect(target("rtsp://player.example.org/weekly").href).toBeUndefined();
});

test("nothing that runs here becomes a link, whatever a server says", () => {
  for (const uri of ["javascript:alert(1)", " javascript:alert(1)", "java\nscript:x", "data:text/html,x", ""]) {
    expect(target(uri)).toEqual({ kind: "player", text: uri, leaves: false });
  }
});
