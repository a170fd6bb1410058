// The script of the page: values where one points, labels shown and hidden everywhere at once, tasks and skills
// highlighted everywhere, tables sorted. The page says the same without it. It avoids the sign that opens a tag.
#include "report/page_parts.h"

namespace asr {

std::string page_script() {
  return R"js(
'use strict';
(() => {
  const all = (selector, root = document) => Array.from(root.querySelectorAll(selector));

  // Values: a drawing's titles become one box beside the pointer, which comes at once and on touch too.
  const box = document.createElement('div');
  box.className = 'tip';
  box.hidden = true;
  box.setAttribute('role', 'status');
  document.body.append(box);
  for (const title of all('svg g > title')) {
    title.parentNode.dataset.tip = title.textContent;
    title.remove();
  }
  const show = event => {
    const place = event.target.closest ? event.target.closest('[data-tip]') : null;
    box.hidden = !place;
    if (!place) return;
    box.textContent = place.dataset.tip;
    const right = document.documentElement.clientWidth - box.offsetWidth - 8;
    box.style.left = Math.max(4, Math.min(event.clientX + 12, right)) + 'px';
    box.style.top = Math.max(4, event.clientY - box.offsetHeight - 12) + 'px';
  };
  document.addEventListener('pointermove', show);
  document.addEventListener('pointerdown', show);
  document.addEventListener('pointerleave', () => { box.hidden = true; });

  // Labels: one rule hides all that belongs to those switched off.
  const rule = document.createElement('style');
  document.head.append(rule);
  const bar = document.querySelector('nav.labels');
  const said = bar.querySelector('output');
  bar.hidden = false;
  bar.addEventListener('click', event => {
    const button = event.target.closest('button');
    if (!button) return;
    button.setAttribute('aria-pressed', button.getAttribute('aria-pressed') === 'false');
    const off = all('button[aria-pressed="false"]', bar).map(b => `[data-label="${b.dataset.toggle}"]`);
    rule.textContent = off.length ? off.join(',') + '{display:none!important}' : '';
  });

  // Tasks and skills: a click on one lets the others fade, in every figure; Escape or a second click ends it.
  let chosen = null;
  const choose = topic => {
    chosen = topic;
    document.body.classList.toggle('chosen', topic !== null);
    for (const part of all('[data-topic]')) part.classList.toggle('hit', part.dataset.topic === topic);
    said.textContent = topic === null ? '' : topic + ' is highlighted; Escape ends it';
  };
  document.addEventListener('click', event => {
    const part = event.target.closest ? event.target.closest('[data-topic]') : null;
    if (part) choose(part.dataset.topic === chosen ? null : part.dataset.topic);
  });
  document.addEventListener('keydown', event => {
    if (event.key === 'Escape') choose(null);
  });

  // Tables: a click on a column's name sorts by it, numbers as numbers, a second click the other way round.
  const number = text => {
    const match = text.replace(/\u2212/g, '-').match(/^[+-]?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?/i);
    return match ? parseFloat(match[0]) : NaN;
  };
  const sort = (table, column, descending) => {
    const body = table.tBodies[0];
    const key = row => (row.cells[column] ? row.cells[column].innerText.trim() : '');
    const rows = Array.from(body.rows).map((row, at) => ({ row, at, text: key(row), value: number(key(row)) }));
    const numeric = rows.some(r => !isNaN(r.value));
    rows.sort((a, b) => {
      if (numeric && isNaN(a.value) !== isNaN(b.value)) return isNaN(a.value) ? 1 : -1;
      const order = numeric ? a.value - b.value || 0 : a.text.localeCompare(b.text);
      return (descending ? -order : order) || a.at - b.at;
    });
    for (const entry of rows) body.append(entry.row);
  };
  for (const head of all('table thead th')) {
    head.tabIndex = 0;
    const turn = () => {
      const descending = head.getAttribute('aria-sort') !== 'descending';
      for (const other of all('th', head.parentNode)) other.removeAttribute('aria-sort');
      head.setAttribute('aria-sort', descending ? 'descending' : 'ascending');
      sort(head.closest('table'), head.cellIndex, descending);
    };
    head.addEventListener('click', turn);
    head.addEventListener('keydown', event => {
      if (event.key === 'Enter') turn();
    });
  }

  // A link into a folded part opens it.
  const open = () => {
    const target = location.hash.length > 1 ? document.getElementById(decodeURIComponent(location.hash.slice(1))) : null;
    if (!target) return;
    for (let part = target; part; part = part.parentElement) if (part.tagName === 'DETAILS') part.open = true;
    target.scrollIntoView();
  };
  window.addEventListener('hashchange', open);
  open();
})();
)js";
}

}  // namespace asr
