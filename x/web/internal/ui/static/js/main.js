// What makes the pages lively. Each module does one thing, and without any of them the pages work.

import { follow } from "./live.js";
import { answerQuestions } from "./question.js";
import { countTimes } from "./times.js";
import { drawCharts } from "./charts.js";
import { listenToKeys } from "./keys.js";
import { pickTasks } from "./pick.js";
import { goOnSearching } from "./search.js";
import { showTab } from "./tabs.js";

follow();
answerQuestions();
countTimes();
drawCharts();
listenToKeys();
pickTasks();
goOnSearching();
showTab();
