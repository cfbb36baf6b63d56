import { createRoot } from "react-dom/client";
import { App } from "./App";
import { speak } from "./i18n";
import { load } from "./settings";
import "./styles.css";
import { Guard } from "./ui/Guard";

const root = document.getElementById("root");
if (root) {
  const settings = load();
  void speak(settings.language).then(() => createRoot(root).render(<Guard><App kept={settings} /></Guard>));
}
