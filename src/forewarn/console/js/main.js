// The first module of each page.

const title = document.createElement("h1");
title.textContent = document.title;
document.body.append(title);
