/* A button on each block of code that copies it; of a command and its output the command alone. */
for (const block of document.querySelectorAll("div.highlight > pre")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "copy";
  button.addEventListener("click", async () => {
    const text = block.textContent;
    await navigator.clipboard.writeText(text.startsWith("$ ") ? text.slice(2, text.indexOf("\n")) : text);
    button.textContent = "copied";
    setTimeout(() => (button.textContent = "copy"), 1500);
  });
  block.parentElement.append(button);
}
