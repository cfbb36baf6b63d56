/** Before a meeting: who one is, what others will see and hear, and whether the network will do. */

import type { Problem, Way } from "@sangam/sdk";
import { Mic, MicOff, Video, VideoOff } from "lucide-react";
import { useEffect, useState, type FormEvent } from "react";
import { Button, Input, Label, TextField } from "react-aria-components";
import { useTranslation } from "react-i18next";
import { devices, type Devices as Known } from "../media";
import { Picture } from "../meeting/Picture";
import { refusal } from "../refusal";
import type { Link } from "../route";
import type { Settings } from "../settings";
import { Choice } from "../ui/Choice";
import { IconButton } from "../ui/IconButton";
import { Languages } from "../ui/Languages";
import { Logo } from "../ui/Logo";
import { LogOut } from "../ui/LogOut";
import { Old } from "../ui/Old";
import { Ways } from "../ui/Ways";
import { ConnectionTest } from "./ConnectionTest";
import { Meter } from "./Meter";
import { useDevice, type Ready } from "./useDevice";

export interface PreJoinProps {
  link: Link;
  /** By origin, this page's own first; none before they are known. */
  brokers: readonly string[] | undefined;
  /** Where one has to log in first, if one has to. */
  login: string | undefined;
  /** Other ways in, as far as they are told. */
  ways: readonly Way[];
  settings: Settings;
  change(settings: Settings): void;
  busy: boolean;
  problem: Problem | undefined;
  enter(ready: Ready): void;
}

export function PreJoin(props: PreJoinProps) {
  const { link, brokers, login, ways, settings, change, busy, problem, enter } = props;
  const { t } = useTranslation();
  const video = useDevice("video", settings.camera, settings);
  const audio = useDevice("audio", settings.microphone, settings);
  const go = (event: FormEvent) => {
    event.preventDefault();
    enter({ audio, video });
  };
  const refused = problem && refusal(problem, t);
  const faults = [video.fault && `camera_${video.fault}`, audio.fault && `microphone_${audio.fault}`];
  return (
    <main className="mx-auto flex min-h-full max-w-5xl flex-col gap-6 p-4 sm:p-8">
      <header className="flex items-center justify-between gap-4">
        <Logo />
        <Languages settings={settings} change={change} />
      </header>
      <div role="status" className="empty:hidden"><Old there /></div>
      <div className="my-auto grid grid-cols-[minmax(0,1fr)] gap-6
        md:grid-cols-[minmax(0,1.35fr)_minmax(0,1fr)] md:grid-rows-[auto_1fr]">
        <div className="flex flex-col gap-4">
          <div className="card relative aspect-video overflow-hidden">
            <Picture track={video.track} mirrored label={t("prejoin.preview")} />
            {!video.track && (
              <p className="absolute inset-0 flex items-center justify-center text-dim">
                {t("prejoin.dark")}
              </p>
            )}
            <div className="absolute inset-x-0 bottom-4 flex justify-center gap-3">
              <Switches settings={settings} change={change} />
            </div>
          </div>
          <Meter track={audio.track} label={t("prejoin.meter")} />
        </div>
        <form onSubmit={go} className="card flex flex-col gap-4 self-start p-6 md:row-span-2">
          <h1 className="text-2xl font-semibold break-words">
            {t("prejoin.title", { session: link.session })}
          </h1>
          <TextField
            value={settings.name} onChange={(name) => change({ ...settings, name })}
            isRequired maxLength={100} autoComplete="name" className="flex flex-col gap-1.5"
          >
            <Label className="text-sm text-dim">{t("prejoin.name")}</Label>
            <Input className="rounded-lg border border-line bg-ground px-3 py-2.5" dir="auto" />
          </TextField>
          <Devices settings={settings} change={change} opened={audio.track ?? video.track} />
          {faults.map((one) => one && <p key={one} role="alert" className="text-sm text-warn">{t(`device.${one}`)}</p>)}
          {refused && (
            <p role="alert" className="text-sm text-warn">
              {refused.hint ? `${refused.text}. ${refused.hint}` : refused.text}
            </p>
          )}
          {link.fault && <p role="alert" className="text-sm text-warn">{t(`login.${link.fault}`)}</p>}
          {link.parted && <p role="status" className="text-sm text-dim">{t("login.parted")}</p>}
          {login ? (
            <a
              href={login}
              className="rounded-lg bg-accent px-4 py-2.5 text-center font-semibold text-ground"
            >
              {t("login.go")}
            </a>
          ) : (
            <Button
              type="submit" isDisabled={busy || audio.pending || video.pending || settings.name.trim() === ""}
              className="cursor-pointer rounded-lg bg-accent px-4 py-2.5 font-semibold text-ground
                disabled:cursor-not-allowed disabled:bg-soft disabled:text-dim"
            >
              {busy ? t("prejoin.joining") : t("prejoin.join")}
            </Button>
          )}
          {!login && link.account && <LogOut link={link} />}
          <Ways ways={ways} heading="h2" />
        </form>
        {/* Last, as it grows: nothing may move from under a finger. */}
        <ConnectionTest link={link} brokers={brokers} />
      </div>
    </main>
  );
}

type Changing = Pick<PreJoinProps, "settings" | "change">;

function Switches({ settings, change }: Changing) {
  const { t } = useTranslation();
  const { microphone, camera } = settings;
  return (
    <>
      <IconButton
        icon={microphone ? Mic : MicOff} look={microphone ? "plain" : "off"}
        label={t(microphone ? "tool.mute" : "tool.unmute")}
        press={() => change({ ...settings, microphone: !microphone })}
      />
      <IconButton
        icon={camera ? Video : VideoOff} look={camera ? "plain" : "off"}
        label={t(camera ? "tool.camera_off" : "tool.camera_on")}
        press={() => change({ ...settings, camera: !camera })}
      />
    </>
  );
}

/** Lists fill once something was opened: before, browsers tell no names. */
export function Devices({ settings, change, opened }: Changing & { opened: unknown }) {
  const { t } = useTranslation();
  const [all, setAll] = useState<Known>({ audio: [], video: [], speaker: [] });
  useEffect(() => {
    const look = () => void devices().then(setAll).catch(() => undefined);
    look();
    navigator.mediaDevices?.addEventListener("devicechange", look);
    return () => navigator.mediaDevices?.removeEventListener("devicechange", look);
  }, [opened]);
  const options = (list: MediaDeviceInfo[]) =>
    list.map((one, n) => ({ id: one.deviceId, name: one.label || t("device.number", { n: n + 1 }) }));
  const first = (list: MediaDeviceInfo[], id: string | undefined) =>
    list.find((one) => one.deviceId === id)?.deviceId ?? list[0]?.deviceId;
  return (
    <>
      <Choice
        label={t("device.camera")} options={options(all.video)}
        value={first(all.video, settings.cameraId)}
        choose={(cameraId) => change({ ...settings, cameraId })}
      />
      <Choice
        label={t("device.microphone")} options={options(all.audio)}
        value={first(all.audio, settings.microphoneId)}
        choose={(microphoneId) => change({ ...settings, microphoneId })}
      />
      {all.speaker.length > 0 && (
        <Choice
          label={t("device.speaker")} options={options(all.speaker)}
          value={first(all.speaker, settings.speakerId)}
          choose={(speakerId) => change({ ...settings, speakerId })}
        />
      )}
    </>
  );
}
