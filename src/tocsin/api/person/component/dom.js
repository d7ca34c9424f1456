/** Elements, built without HTML: texts are set as texts, so that nothing in them is ever markup. */

const SVG = "http://www.w3.org/2000/svg";
const PATHS = {
  bell: "M12 3a6 6 0 0 0-6 6v4l-1.6 3.2a.6.6 0 0 0 .5.8h14.2a.6.6 0 0 0 .5-.8L18 13V9a6 6 0 0 0-6-6Zm-2.2 16a2.3 2.3 0 0 0 4.4 0",
  settings: "M4 7h9m5 0h2M4 17h2m5 0h9M15.5 7a2.3 2.3 0 1 0 .01 0M8.5 17a2.3 2.3 0 1 0 .01 0",
  checks: "m2.5 12.5 4 4L15 8m-4.500 7.500 1 1L20.500 8",
  back: "M15 5 8 12l7 7",
  archive: "M4 5h16v4H4zm1.500 4v10h13V9M10 13h4",
  restore: "M8 5 4 9l4 4M4 9h10a5 5 0 0 1 0 10H9",
  read: "M3.5 9.500 12 4l8.500 5.500V19h-17zm0 0L12 15l8.500-5.500",
  unread: "M3.500 6h17v12h-17zm0 0L12 13l8.500-7",
};

/** Build an element; `on…` are listeners, other properties are attributes unless null or false. */
export function build(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "text") element.textContent = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else set(element, name, value);
  }
  element.append(...children);
  return element;
}

/** Set an attribute, or remove it if it is null or false. */
export function set(element, name, value) {
  if (value === null || value === undefined || value === false) element.removeAttribute(name);
  else element.setAttribute(name, value === true ? "" : value);
}

/** Build one of the drawings. */
export function drawing(name) {
  const svg = document.createElementNS(SVG, "svg");
  for (const [key, value] of Object.entries({ viewBox: "0 0 24 24", "aria-hidden": "true", class: `drawing draws-${name}` })) {
    svg.setAttribute(key, value);
  }
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
}

/** Build a button that is a drawing with a label. */
export function iconButton(name, part, onclick) {
  return build("button", { type: "button", class: "icon-button", part, onclick }, drawing(name));
}

/** Label a button that has no text. */
export function label(button, text) {
  button.setAttribute("aria-label", text);
  button.title = text;
}
