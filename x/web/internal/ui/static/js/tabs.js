// Scrolls the current tab into view if there is no room for all tabs.

export function showTab() {
  const tab = document.querySelector(".tabs [aria-current]");
  const tabs = tab?.parentElement;
  if (tabs && tabs.scrollWidth > tabs.clientWidth) tabs.scrollLeft = tab.offsetLeft - tabs.offsetLeft - (tabs.clientWidth - tab.offsetWidth) / 2;
}
