/** Somebody whose network lets media pass by a relay only takes part through coturn. */

import { afterAll, beforeAll, expect, test } from "vitest";
import { token, two, type Broker } from "./brokers";
import { cable, type Cable } from "./cable";
import { relay, type Relay } from "./coturn";
import { enter, person, picture, type Person } from "./people";
import { hears, sees } from "./senses";

const SECRET = "a secret of a test, and of nobody else";

let line: Cable;
let turn: Relay;
let brokers: [Broker, Broker];
let anna: Person;
let bert: Person;

beforeAll(async () => {
  line = await cable();
  turn = await relay(line.near, SECRET);
  brokers = await two(line.near, {
    SANGAM_WEBRTC_TURN: turn.url, SANGAM_WEBRTC_TURN_SECRET: SECRET,
  });
  const origins = brokers.map((one) => one.origin);
  [anna, bert] = await Promise.all([
    person("Anna", 520, origins), person("Bert", 1_340, origins, { program: line.browser }),
  ]);
  await bert.context.addInitScript(() => {
    const only = (wanted?: RTCConfiguration) => ({ ...wanted, iceTransportPolicy: "relay" }) as const;
    globalThis.RTCPeerConnection = class extends RTCPeerConnection {
      constructor(wanted?: RTCConfiguration) {
        super(only(wanted));
      }
      override setConfiguration(wanted?: RTCConfiguration): void {
        super.setConfiguration(only(wanted));
      }
    };
  });
});

afterAll(async () => {
  await Promise.all([anna?.leave(), bert?.leave()]);
  await Promise.all((brokers ?? []).map((one) => one.kill()));
  await turn?.stop();
  await line?.remove();
});

/** How the media of each of a page's connections go. */
function ways(one: Person): Promise<string[]> {
  return one.page.evaluate(async () => {
    const { connections } = globalThis as unknown as { connections: Set<RTCPeerConnection> };
    const found: string[] = [];
    for (const connection of connections) {
      if (connection.connectionState !== "connected") continue;
      const stats = await connection.getStats();
      for (const pair of stats.values()) {
        if (pair.type !== "candidate-pair" || !pair.nominated) continue;
        const local = stats.get(pair.localCandidateId as string) as { candidateType: string };
        found.push(local.candidateType);
      }
    }
    return found;
  });
}

test("a meeting goes through a relay where nothing else passes", async () => {
  const link = async (at: number, name: string, role: string) =>
    `${brokers[at]?.origin}/m/meet/weekly#token=${await token(brokers[0], "weekly", name, role)}`;
  await enter(anna, await link(0, "anna", "chair"));
  await enter(bert, await link(1, "bert", "participant"));
  try {
    await Promise.all([sees(anna.page, "Bert", 30_000), sees(bert.page, "Anna", 30_000)]);
    await Promise.all([hears(anna.page, bert.tone), hears(bert.page, anna.tone)]);
  } catch (error) {
    console.error([...anna.faults, ...bert.faults, ...turn.log.slice(-40)].join("\n"));
    await Promise.all([picture(anna, "failed-anna"), picture(bert, "failed-bert")]);
    throw error;
  }
  const [direct, relayed] = await Promise.all([ways(anna), ways(bert)]);
  expect(new Set(relayed)).toEqual(new Set(["relay"]));
  expect(relayed.length, "camera, microphone, and Anna").toBeGreaterThanOrEqual(3);
  expect(direct).not.toContain("relay");
  expect(turn.log.join("\n")).toMatch(/ALLOCATE processed, success/);
  expect([...anna.faults, ...bert.faults]).toEqual([]);
});

test("a relay takes no name that was made up", async () => {
  const refused = (username: string, credential: string) =>
    bert.page.evaluate(async ([url, username, credential]) => {
      const iceServers = [{ urls: url ?? "", username: username ?? "", credential: credential ?? "" }];
      const connection = new RTCPeerConnection({ iceServers });
      const code = new Promise<number>((resolve) => {
        connection.onicecandidateerror = (event) => resolve(event.errorCode);
        connection.onicecandidate = ({ candidate }) => {
          if (candidate?.type === "relay") resolve(0);
        };
      });
      connection.addTransceiver("audio");
      await connection.setLocalDescription(await connection.createOffer());
      const found = await code;
      connection.close();
      return found;
    }, [turn.url, username, credential] as const);
  expect(await refused("9999999999:0000000000000007", "bWFkZSB1cA==")).toBe(401);
});
