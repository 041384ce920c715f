// Enhances the pages. Each module does one thing; the pages work without any of them.

import { follow } from "./live.js";
import { answerQuestions } from "./question.js";
import { countTimes } from "./times.js";
import { drawCharts } from "./charts.js";
import { handleKeys } from "./keys.js";
import { selectTasks } from "./select.js";
import { continueSearch } from "./search.js";
import { showTab } from "./tabs.js";

follow();
answerQuestions();
countTimes();
drawCharts();
handleKeys();
selectTasks();
continueSearch();
showTab();
