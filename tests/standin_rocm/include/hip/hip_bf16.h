#pragma once  // the stand-in compiler knows all of it from the start
