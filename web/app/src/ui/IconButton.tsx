/** A round button with a picture, a name for those who do not see it, and a tooltip. */

import type { LucideIcon } from "lucide-react";
import { Button, Tooltip, TooltipTrigger } from "react-aria-components";

const LOOKS = {
  plain: "bg-soft text-ink hover:bg-line",
  on: "bg-accent text-ground hover:opacity-90",
  off: "bg-stopdark text-white hover:bg-stop",
  warn: "bg-warn text-ground hover:opacity-90",
} as const;

export interface IconButtonProps {
  icon: LucideIcon;
  label: string;
  look?: keyof typeof LOOKS;
  /** Only where the label stays the same: whoever hears both would hear the contrary. */
  pressed?: boolean;
  disabled?: boolean;
  small?: boolean;
  /** A number at the corner; none if 0. */
  badge?: number;
  press(): void;
}

export function IconButton(props: IconButtonProps) {
  const { icon: Icon, label, look = "plain", pressed, disabled, small, badge, press } = props;
  const size = small ? "size-8" : "size-11";
  return (
    <TooltipTrigger delay={500}>
      <Button
        aria-label={badge ? `${label}, ${badge}` : label} onPress={press} isDisabled={disabled ?? false}
        {...(pressed === undefined ? {} : { "aria-pressed": pressed })}
        className={`relative flex ${size} shrink-0 cursor-pointer items-center justify-center rounded-full
          transition-colors disabled:cursor-not-allowed disabled:opacity-40 ${LOOKS[look]}`}
      >
        <Icon size={small ? 16 : 20} aria-hidden />
        {badge ? (
          <span className="absolute -top-1 -right-1 min-w-5 rounded-full bg-sky px-1 text-center
            text-xs leading-5 font-semibold text-ground">
            {badge}
          </span>
        ) : null}
      </Button>
      <Tooltip
        offset={8} className="rounded-md border border-line bg-raised px-2.5 py-1 text-sm shadow-lg"
      >
        {label}
      </Tooltip>
    </TooltipTrigger>
  );
}
