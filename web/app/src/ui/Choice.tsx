/** A list to choose one from. */

import { Check, ChevronDown } from "lucide-react";
import {
  Button, Label, ListBox, ListBoxItem, Popover, Select, SelectValue,
} from "react-aria-components";

export interface ChoiceProps {
  label: string;
  value: string | undefined;
  options: { id: string; name: string }[];
  choose(id: string): void;
}

export function Choice({ label, value, options, choose }: ChoiceProps) {
  return (
    <Select
      value={value ?? null} onChange={(key) => choose(String(key))}
      isDisabled={options.length === 0} className="flex min-w-0 flex-col gap-1.5"
    >
      <Label className="text-sm text-dim">{label}</Label>
      <Button className="flex cursor-pointer items-center justify-between gap-2 rounded-lg border
        border-line bg-ground px-3 py-2 text-left disabled:opacity-50">
        <SelectValue className="min-w-0 truncate">{({ selectedText }) => selectedText}</SelectValue>
        <ChevronDown size={16} aria-hidden className="shrink-0" />
      </Button>
      <Popover className="card w-(--trigger-width) overflow-auto p-1 shadow-xl">
        <ListBox className="outline-none">
          {options.map(({ id, name }) => (
            <ListBoxItem
              key={id} id={id} textValue={name}
              className="group flex cursor-pointer items-center justify-between rounded-md px-3 py-2
                data-[focused]:bg-soft"
            >
              {name}
              <Check size={16} aria-hidden className="invisible group-data-[selected]:visible" />
            </ListBoxItem>
          ))}
        </ListBox>
      </Popover>
    </Select>
  );
}
